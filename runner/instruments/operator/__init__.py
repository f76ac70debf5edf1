"""What a VPN asks of its operator: counts on paper, and full meshes."""
