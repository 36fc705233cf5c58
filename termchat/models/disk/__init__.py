"""The models on this disk, wherever programs keep them. Nothing is written.

`program_folders` knows which folders there are, `walk` goes through one of them and groups files to candidates, `discovery`
reads their headers, recognises copies and gives models and skipped files, each with the reason.
"""
