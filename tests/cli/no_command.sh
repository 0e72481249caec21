# Without a command: the usage, on stderr.
pare
