pare --version
