pare help inspct
