"""Downloads from Hugging Face or an address: resumed, checked, one process for each file.

`pull.pull` is the way in; it blocks and is called from a thread or the command line. `hub` turns what a person wrote into
addresses, sizes and hashes; `web` makes the requests; `transfer` brings one file to its place under a `lock`; `progress`
reports how far it is and waits between tries.
"""
