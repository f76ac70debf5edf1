# EasyTier: the wheel easytier-pyo3 of PyPI, which has the whole daemon as a library, and easytier.py, which runs it. No
# Debian packages it. Pinned: the wheel by its digest (easytier.txt), for x86-64 and Debian 13's Python: there is no other.
# Of pip its files alone: its package would put Debian's certificates in the place of those that this machine trusts.
apt-get -q update
cd /tmp
apt-get -q download python3-pip
dpkg -x python3-pip_*.deb pip
export PYTHONPATH=/tmp/pip/usr/lib/python3/dist-packages PIP_CERT=/etc/ssl/certs/ca-certificates.crt
python3 -m pip install --no-deps --only-binary :all: --require-hashes --target "$1/usr/lib/python3/dist-packages" \
  -r /recipe/easytier.txt
install -D /recipe/easytier.py "$1/usr/bin/easytier-node"
