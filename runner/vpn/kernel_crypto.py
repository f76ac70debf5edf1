"""The kernel's own names of ciphers and integrities: for ip-xfrm(8), and as /proc/crypto lists them."""

# Level -> kind of algorithm (ip-xfrm(8)), the kernel's name of it, and the length of its key in bytes.
KERNEL = {
    "aes-128-cbc": ("enc", "cbc(aes)", 16),
    "aes-192-cbc": ("enc", "cbc(aes)", 24),
    "aes-256-cbc": ("enc", "cbc(aes)", 32),
    "3des-cbc": ("enc", "cbc(des3_ede)", 24),
    "blowfish-128-cbc": ("enc", "cbc(blowfish)", 16),
    "null": ("enc", "ecb(cipher_null)", 0),
    "aes-128-gcm": ("aead", "rfc4106(gcm(aes))", 20),
    "aes-256-gcm": ("aead", "rfc4106(gcm(aes))", 36),
    "chacha20-poly1305": ("aead", "rfc7539esp(chacha20,poly1305)", 36),
    "hmac-sha1": ("auth-trunc", "hmac(sha1)", 20),
    "hmac-sha256": ("auth-trunc", "hmac(sha256)", 32),
    **{f"aes-{bits}-ctr": ("enc", "rfc3686(ctr(aes))", bits // 8 + 4) for bits in (128, 192, 256)},
    **{f"camellia-{bits}-cbc": ("enc", "cbc(camellia)", bits // 8) for bits in (128, 192, 256)},
    **{f"blowfish-{bits}-cbc": ("enc", "cbc(blowfish)", bits // 8) for bits in (192, 256)},
    "cast-128-cbc": ("enc", "cbc(cast5)", 16),
    "aes-192-gcm": ("aead", "rfc4106(gcm(aes))", 28),
    **{f"aes-{bits}-ccm": ("aead", "rfc4309(ccm(aes))", bits // 8 + 3) for bits in (128, 192, 256)},
    **{f"aes-{bits}-gmac": ("aead", "rfc4543(gcm(aes))", bits // 8 + 4) for bits in (128, 192, 256)},
    "hmac-md5": ("auth-trunc", "hmac(md5)", 16),
    "hmac-sha384": ("auth-trunc", "hmac(sha384)", 48),
    "hmac-sha512": ("auth-trunc", "hmac(sha512)", 64),
    "aes-xcbc": ("auth-trunc", "xcbc(aes)", 16),
    "aes-cmac": ("auth-trunc", "cmac(aes)", 16),
}
