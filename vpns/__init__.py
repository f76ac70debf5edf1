"""One short file per VPN. The file's name is the VPN's name on the command line; docs/add-a-vpn.md has the rest."""
