# Help of an unknown command gives the closest name.
pare help inspct
