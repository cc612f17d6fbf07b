"""One module a command. Each defines `command` and loads what it calls inside it, so that help costs nothing."""
