"""Downloads from Hugging Face or a URL: resumed, checked, one process for each file."""
