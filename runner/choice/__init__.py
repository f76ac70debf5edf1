"""Which VPN for a line, a traffic and musts, and how sure that is."""
