"""OpenSSL 3 keeps old ciphers, Blowfish among them, in its legacy provider (openssl.cnf(5), Provider Configuration)."""

# For OPENSSL_CONF of a daemon that needs one of them.
LEGACY_PROVIDER = """\
openssl_conf = init
[init]
providers = providers
[providers]
default = on
legacy = on
[on]
activate = 1
"""
