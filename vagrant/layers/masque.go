// A gateway of CONNECT-IP (RFC 9484 §8.2): IP packets in QUIC datagrams between sites. Both ends have a certificate of
// one authority, which names its gateway. Argument: -version, or the path of a file like
//
//	{"Device": "masque0", "Listen": "192.168.0.2:443", "Certificate": "gw2.crt", "Key": "gw2.key",
//	 "Authority": "ca.crt", "Name": "gw2", "Networks": ["10.2.0.0/24"], "Status": "/run/masque",
//	 "Peers": [{"Name": "gw1", "Networks": ["10.1.0.0/24"], "Dial": ""}]}
//
// A peer with an address in Dial is dialled until it answers, and again when it is lost; the others dial. While a peer
// is connected, a file of its name in Status says what was negotiated.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	connectip "github.com/quic-go/connect-ip-go"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/yosida95/uritemplate/v3"
	"golang.org/x/sys/unix"
)

type peer struct {
	Name, Dial string
	Networks   []netip.Prefix
	conn       atomic.Pointer[connectip.Conn]
}

type gateway struct {
	Device, Listen, Certificate, Key, Authority, Name, Status string

	Networks []netip.Prefix
	Peers    []*peer
	tun      *os.File
}

// A peer is dead after 10 s without a packet; a NAT keeps its mapping by one every 3 s. Packets of 1280 bytes fit from
// the first on.
var settings = quic.Config{
	EnableDatagrams: true, InitialPacketSize: 1350, KeepAlivePeriod: 3 * time.Second, MaxIdleTimeout: 10 * time.Second,
}

func main() {
	log.SetFlags(log.LUTC | log.Lmicroseconds)
	if os.Args[1] == "-version" {
		build, _ := debug.ReadBuildInfo()
		for _, module := range build.Deps {
			if strings.HasPrefix(module.Path, "github.com/quic-go/") {
				fmt.Println(filepath.Base(module.Path), module.Version)
			}
		}
		return
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(path string) error {
	var me gateway
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &me)
	}
	if err != nil {
		return err
	}
	identity, err := me.identity()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(me.Status); err != nil {
		return err
	}
	if err := os.MkdirAll(me.Status, 0o755); err != nil {
		return err
	}
	if me.tun, err = openTun(me.Device); err != nil {
		return fmt.Errorf("%s: %w", me.Device, err)
	}
	for _, other := range me.Peers {
		if other.Dial != "" {
			go me.dial(other, identity)
		}
	}
	go me.listen(identity)
	return me.send()
}

func (me *gateway) identity() (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(me.Certificate, me.Key)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(me.Authority)
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(text) {
		return nil, errors.New(me.Authority + " has no certificate")
	}
	return &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: authority, ClientCAs: authority,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13, NextProtos: []string{http3.NextProtoH3},
	}, nil
}

// openTun makes a TUN device without packet information (Linux, Documentation/networking/tuntap.rst).
func openTun(name string) (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// send takes what the device has for the peers to their connections. What is for nobody who is there is dropped.
func (me *gateway) send() error {
	packet := make([]byte, 65536)
	for {
		length, err := me.tun.Read(packet)
		if err != nil {
			return err
		}
		_, to := ends(packet[:length])
		for _, other := range me.Peers {
			conn := other.conn.Load()
			if conn == nil || !covers(other.Networks, to) {
				continue
			}
			if answer, err := conn.WritePacket(packet[:length]); err == nil && answer != nil {
				me.deliver(answer) // too big: for the sender
			}
		}
	}
}

// carry delivers what comes from a peer until its connection ends. Only what comes from the peer's networks is.
func (me *gateway) carry(other *peer, conn *connectip.Conn, state tls.ConnectionState) error {
	routes := make([]connectip.IPRoute, len(me.Networks))
	for i, network := range me.Networks {
		routes[i] = connectip.IPRoute{StartIP: network.Addr(), EndIP: last(network)}
	}
	if err := conn.AdvertiseRoute(routes); err != nil {
		return err
	}
	if _, err := conn.Routes(context.Background()); err != nil {
		return err
	}
	if before := other.conn.Swap(conn); before != nil {
		before.Close()
	}
	me.tell(other, conn, state)
	packet := make([]byte, 65536)
	for {
		length, err := conn.ReadPacket(packet)
		if err != nil {
			if other.conn.CompareAndSwap(conn, nil) {
				os.Remove(filepath.Join(me.Status, other.Name))
			}
			return err
		}
		if from, _ := ends(packet[:length]); covers(other.Networks, from) {
			me.deliver(packet[:length])
		}
	}
}

// tell writes what was negotiated with a peer.
func (me *gateway) tell(other *peer, conn *connectip.Conn, state tls.ConnectionState) {
	text, _ := json.Marshal(map[string]string{
		"tls": tls.VersionName(state.Version), "cipher": tls.CipherSuiteName(state.CipherSuite),
		"exchange": state.CurveID.String(),
	})
	log.Printf("%s is connected: %s", other.Name, text)
	path := filepath.Join(me.Status, other.Name)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		log.Print(err)
	}
	if other.conn.Load() != conn {
		os.Remove(path)
	}
}

func (me *gateway) deliver(packet []byte) {
	if _, err := me.tun.Write(packet); err != nil {
		log.Print(err)
	}
}

// dial connects to a peer, again and again.
func (me *gateway) dial(other *peer, identity *tls.Config) {
	for ; ; time.Sleep(200 * time.Millisecond) {
		log.Print(other.Name, ": ", me.connect(other, identity))
	}
}

func (me *gateway) connect(other *peer, identity *tls.Config) error {
	limited, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	request, err := connectip.NewRequest(limited, template(other.Name))
	if err != nil {
		return err
	}
	theirs := identity.Clone()
	theirs.ServerName = other.Name
	var line *quic.Conn
	transport := connectip.Transport{TLSClientConfig: theirs, QUICConfig: &settings}
	transport.DialAddr = func(ctx context.Context, _ string, t *tls.Config, q *quic.Config) (_ *quic.Conn, err error) {
		line, err = quic.DialAddr(ctx, other.Dial, t, q)
		return line, err
	}
	conn, _, err := transport.Dial(request)
	if err != nil {
		return err
	}
	defer conn.Close()
	return me.carry(other, conn, line.ConnectionState().TLS)
}

// listen serves the peers that dial.
func (me *gateway) listen(identity *tls.Config) {
	socket, err := net.ListenPacket("udp", me.Listen)
	if err != nil {
		log.Fatal(err)
	}
	server := http3.Server{
		TLSConfig: identity, QUICConfig: &settings, EnableDatagrams: true, Handler: http.HandlerFunc(me.accept),
	}
	log.Fatal(server.Serve(socket))
}

func (me *gateway) accept(answer http.ResponseWriter, asked *http.Request) {
	for _, other := range me.Peers {
		if other.Dial != "" || asked.TLS.PeerCertificates[0].VerifyHostname(other.Name) != nil {
			continue
		}
		request, err := connectip.ParseProxyRequest(asked, template(me.Name))
		if err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		conn, err := (&connectip.Proxy{}).Proxy(answer, request)
		if err == nil {
			err = me.carry(other, conn, *asked.TLS)
		}
		log.Print(other.Name, ": ", err)
		return
	}
	http.Error(answer, "no peer of this gateway", http.StatusForbidden)
}

func template(name string) *uritemplate.Template {
	return uritemplate.MustNew("https://" + name + "/.well-known/masque/ip/")
}

// ends gives a packet's source and destination; none of what is no packet of IP.
func ends(packet []byte) (from, to netip.Addr) {
	switch {
	case len(packet) >= 20 && packet[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20]))
	case len(packet) >= 40 && packet[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(packet[8:24])), netip.AddrFrom16([16]byte(packet[24:40]))
	}
	return
}

func covers(networks []netip.Prefix, address netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}

// last gives the last address of a network.
func last(network netip.Prefix) netip.Addr {
	address := network.Masked().Addr().AsSlice()
	for bit := network.Bits(); bit < 8*len(address); bit++ {
		address[bit/8] |= 1 << (7 - bit%8)
	}
	end, _ := netip.AddrFromSlice(address)
	return end
}
