"""Which VPN for a line, a path, a traffic and musts: the rule of docs/decisions/0069, and how sure its answer is."""
