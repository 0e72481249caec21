pare help >/dev/full
