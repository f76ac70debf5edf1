"""One file a VPN, which reads like a runbook.

The file's name is the VPN's name on the command line; docs/add-a-vpn.md has the rest.
"""
