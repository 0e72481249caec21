# The version.
pare --version
