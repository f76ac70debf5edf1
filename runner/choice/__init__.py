"""The choice: which VPN for a line, a path, a traffic and musts, and how sure that is."""
