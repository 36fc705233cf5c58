"""`python -m termchat` is `termchat`."""

from termchat.cli import main

if __name__ == "__main__":
    main()
