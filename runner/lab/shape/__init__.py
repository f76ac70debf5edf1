"""What a lab is shaped like: sites, cables, routers, and the conditions of the WAN."""
