package cloudsigma

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// Ref is an object as it is named inside another one.
type Ref struct {
	UUID string `json:"uuid"`
}

// UnmarshalJSON reads {"uuid": …}, or the UUID alone.
func (r *Ref) UnmarshalJSON(raw []byte) error {
	var id reference
	if err := json.Unmarshal(raw, &id); err != nil {
		return err
	}
	r.UUID = sameID(string(id))
	return nil
}

// sameID is an ID as all are compared: clouds may write addresses and UUIDs in several
// ways.
func sameID(id string) string {
	if addr, is := parseAddr(id); is {
		return addr.String()
	}
	return strings.ToLower(id)
}

// IP is an address of the account: subscribed, or given to one of its servers by
// DHCP. What is not needed is not read, and can be as it likes.
type IP struct {
	// UUID is the address itself. The cloud may have others some day: see Addr.
	UUID   string `json:"uuid"`
	Server *Ref   `json:"server"` // nil: it is attached to none
	// Subscription is nil of an address that is given by DHCP, and taken back.
	Subscription *SubscriptionRef `json:"subscription"`
}

// UnmarshalJSON reads an IP.
func (ip *IP) UnmarshalJSON(data []byte) error {
	type fields IP
	if err := json.Unmarshal(data, (*fields)(ip)); err != nil {
		return fmt.Errorf("read IP: %w", err)
	}
	ip.UUID = sameID(ip.UUID)
	return nil
}

// Addr is the address. It is false of an object that is none.
func (ip *IP) Addr() (netip.Addr, bool) { return parseAddr(ip.UUID) }

// Subscribed says whether the account has paid for the address.
func (ip *IP) Subscribed() bool { return ip.Subscription != nil }

func parseAddr(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}

// SubscriptionRef is a subscription as an IP names it.
type SubscriptionRef struct {
	ID ID `json:"id"`
}

// ID is a text in some objects and a number in others.
type ID string

// UnmarshalJSON reads both.
func (id *ID) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*id = ID(text)
		return nil
	}
	var number json.Number
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&number); err != nil {
		return err
	}
	*id = ID(number)
	return nil
}

// Subscription to an IP, or to something else.
type Subscription struct {
	ID        ID     `json:"id"`
	Resource  string `json:"resource"`          // ip, vlan, …
	Object    string `json:"subscribed_object"` // the address
	Status    string `json:"status"`            // active, inactive, expired
	AutoRenew bool   `json:"auto_renew"`
	EndTime   Time   `json:"end_time"`
}

// Values of Subscription's Resource and Status.
const (
	ResourceIP = "ip"
	Active     = "active"
)

// Time is zero if the cloud has none, or writes it in a form that we do not know.
type Time struct{ time.Time }

// UnmarshalJSON never fails: no list is worth losing for a date.
func (t *Time) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		t.Time = parseTime(text)
	}
	return nil
}

func parseTime(text string) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999", time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at
		}
	}
	return time.Time{}
}
