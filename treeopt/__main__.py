"""`python -m treeopt` is the command line too."""

from treeopt.cli import main

if __name__ == "__main__":
    main()
