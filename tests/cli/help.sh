pare help
pare --help | head -1
pare -h | head -1
