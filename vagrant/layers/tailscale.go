// The control server of Tailscale's own tests, as a program, for a lab without an account or the Internet: it lets in
// who has the auth key, and approves the routes that gateways advertise. Argument: the path of a file like
// {"Listen": ":8080", "URL": "http://192.168.0.254:8080", "AuthKey": "…", "DERPMap": {…}}.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"time"

	"tailscale.com/tailcfg"
	"tailscale.com/tstest/integration/testcontrol"
	"tailscale.com/types/key"
)

func main() {
	var config struct {
		Listen, URL, AuthKey string
		DERPMap              *tailcfg.DERPMap
	}
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		log.Fatal(err)
	}
	server := &testcontrol.Server{
		ExplicitBaseURL: config.URL, RequireAuthKey: config.AuthKey, DERPMap: config.DERPMap, AllOnline: true,
	}
	go approve(server)
	log.Fatal(http.ListenAndServe(config.Listen, server))
}

// approve gives each node the routes that it advertises, as an administrator would.
func approve(server *testcontrol.Server) {
	approved := map[key.NodePublic][]netip.Prefix{}
	for range time.Tick(50 * time.Millisecond) {
		for _, node := range server.AllNodes() {
			if routes := node.Hostinfo.RoutableIPs().AsSlice(); !slices.Equal(routes, approved[node.Key]) {
				server.SetSubnetRoutes(node.Key, routes)
				approved[node.Key] = routes
			}
		}
	}
}
