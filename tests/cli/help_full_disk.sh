# A full standard output is an error.
pare help >/dev/full
