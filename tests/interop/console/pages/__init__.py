"""Every page of the console, in a real browser, on a broker with a bit of all and traffic."""
