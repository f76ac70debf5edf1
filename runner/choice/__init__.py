"""Which VPN suits a user's needs, by absolute thresholds first and cost last."""
