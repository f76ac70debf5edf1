"""What a VPN plugin is, what it declares, and its protocol's arithmetic."""
