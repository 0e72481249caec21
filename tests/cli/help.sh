# The list of commands, by 'pare help', --help and -h.
pare help
pare --help | head -1
pare -h | head -1
