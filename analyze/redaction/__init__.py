"""A run -> the same run without what tells whose it is: folders, people, machines, arguments of the command."""
