"""From a function, a command or a file to a finished study: what a person uses who wants the best setting, no more."""
