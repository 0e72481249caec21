"""NNI's model compression by name, over libpare."""
