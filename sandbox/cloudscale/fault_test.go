package cloudscale_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/sandbox/cloudscale"
)

func TestFaultyAnswers(t *testing.T) {
	c := newCloud(t, quick)
	for _, status := range []int{401, 403, 429, 500, 503} {
		c.Fail(cloudscale.Fault{Method: "GET", Path: "/v1/servers", Status: status, RetryAfter: 1500 * time.Millisecond})
		c.list("networks") // not concerned
		got, header, raw := c.request("GET", "servers", c.Token(), nil)
		if got != status || header.Get("Retry-After") != "2" {
			t.Errorf("got %d %v %s, want %d", got, header, raw, status)
		}
		if got := len(c.list("servers")); got != 1 {
			t.Errorf("after the fault: %d servers", got)
		}
	}
}

func TestFaultyRequestsAreChosen(t *testing.T) {
	c := newCloud(t, quick)
	lb := c.newLB()
	pool := c.newPool(lb, "tcp")
	end := c.Fail(cloudscale.Fault{Kind: cloudscale.Members, Skip: 1, Times: 2, Status: 503})
	members := "load-balancers/pools/" + id(pool) + "/members"
	for i, want := range []int{200, 503, 503, 200} {
		if got, _ := c.send("GET", members, nil); got != want {
			t.Errorf("request %d: %d, want %d", i, got, want)
		}
	}
	end() // it has ended already
	end = c.Fail(cloudscale.Fault{Path: "/v1/load-balancers/pools/*/members", Times: -1, Status: 503})
	for range 3 {
		c.refused("GET", members, nil, 503, "detail", "maintenance")
	}
	c.must("GET", "load-balancers/pools/"+id(pool), nil)
	end()
	if got := len(c.list(members)); got != 0 {
		t.Error(got)
	}
	c.Fail(cloudscale.Fault{Status: 500})
	c.ClearFaults()
	c.must("GET", "load-balancers/"+id(lb), nil)
}

func TestCutAndLost(t *testing.T) {
	for _, network := range []bool{false, true} {
		c := newCloud(t, quick)
		client, base := c.Client(), "http://api.example"
		if network {
			server := httptest.NewServer(c)
			defer server.Close()
			client, base = server.Client(), server.URL
		}
		create := func() (int, error) {
			r := c.newRequest("POST", "load-balancers", c.Token(), object{"name": "x", "flavor": "lb-standard"})
			u, err := r.URL.Parse(base + "/v1/load-balancers")
			if err != nil {
				t.Fatal(err)
			}
			r.URL, r.Host = u, u.Host
			status, _, _, err := do(client, r)
			return status, err
		}
		c.Fail(cloudscale.Fault{Method: "POST", Cut: true})
		if status, err := create(); err == nil {
			t.Errorf("cut: %d", status)
		}
		if n := len(c.LoadBalancers()); n != 0 {
			t.Errorf("cut, but %d were made", n)
		}
		c.Fail(cloudscale.Fault{Method: "POST", Lose: true})
		if status, err := create(); err == nil {
			t.Errorf("lost: %d", status)
		}
		if n := len(c.LoadBalancers()); n != 1 {
			t.Errorf("lost, and %d were made", n)
		}
		if status, err := create(); err != nil || status != http.StatusCreated {
			t.Errorf("after the faults: %d, %v", status, err)
		}
		log := c.Log()
		if len(log) != 3 || log[0].Status != 0 || log[1].Status != 201 || !log[1].Lost || log[1].Fault != "lost" || log[2].Lost {
			t.Errorf("log: %+v", log)
		}
	}
}

// A client that gives up does not know whether its request was carried out.
func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, quick)
		for _, f := range []cloudscale.Fault{{Latency: time.Minute}, {Latency: time.Minute, Lose: true}} {
			c.Fail(f)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			r := c.newRequest("POST", "load-balancers", c.Token(), object{"name": "x", "flavor": "lb-standard"})
			if status, _, _, err := do(c.Client(), r.WithContext(ctx)); err == nil {
				t.Errorf("%v: %d", f, status)
			}
			cancel()
			if n := len(c.LoadBalancers()); (n == 1) != f.Lose {
				t.Errorf("%+v: %d were made before the client gave up", f, n)
			}
			synctest.Wait()
			<-time.After(time.Minute)
			if n := len(c.LoadBalancers()); n != 1 {
				t.Errorf("%+v: %d were made in the end", f, n)
			}
			for _, lb := range c.LoadBalancers() {
				if err := c.Delete(cloudscale.LoadBalancers, lb.UUID); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func TestSlowChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloudscale.Options{Changing: time.Second, Creating: time.Second})
		c.Fail(cloudscale.Fault{Method: "POST", Changing: time.Minute})
		lb := c.newLB()
		<-time.After(time.Minute - 1)
		c.refused("PATCH", "load-balancers/"+id(lb), object{"name": "x"}, 400, "detail", "being changed")
		<-time.After(1)
		c.Fail(cloudscale.Fault{Method: "PATCH", Changing: time.Hour})
		c.must("PATCH", "load-balancers/"+id(lb), object{"name": "x"})
		<-time.After(time.Hour - 1)
		if got := c.LoadBalancers()[0].Status; got != "changing" {
			t.Error(got)
		}
		<-time.After(1)
		if got := c.LoadBalancers()[0].Status; got != "running" {
			t.Error(got)
		}
	})
}

// Close does not leave anybody waiting.
func TestCloseEndsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, quick)
		c.Fail(cloudscale.Fault{Latency: time.Hour})
		done := make(chan error)
		go func() {
			_, _, _, err := do(c.Client(), c.newRequest("GET", "servers", c.Token(), nil))
			done <- err
		}()
		synctest.Wait()
		c.Close()
		if err := <-done; err == nil {
			t.Error("answered after the end")
		}
	})
}

func TestLogAndCounts(t *testing.T) {
	c := newCloud(t, quick)
	pool := c.newPool(c.newLB(), "tcp")
	c.newMember(pool, "10.0.0.11")
	c.newMember(pool, "10.0.0.12")
	c.list("load-balancers/pools/" + id(pool) + "/members")
	c.send("GET", "nothing", nil)
	counts := c.Counts()
	for call, want := range map[cloudscale.Call]int{
		{Method: "POST", Kind: cloudscale.LoadBalancers}: 1, {Method: "POST", Kind: cloudscale.Pools}: 1,
		{Method: "POST", Kind: cloudscale.Members}: 2, {Method: "GET", Kind: cloudscale.Members}: 1, {Method: "GET"}: 1,
	} {
		if counts[call] != want {
			t.Errorf("%v: %d, want %d", call, counts[call], want)
		}
	}
	if got := c.Writes(); got != 4 {
		t.Errorf("%d writes", got)
	}
	if log := c.Log(); len(log) != 6 || log[5].Status != 404 || log[1].Path != "/v1/load-balancers/pools" || log[1].Status != 201 {
		t.Errorf("log: %+v", log)
	}
	c.ResetLog()
	if len(c.Log())+len(c.Counts()) != 0 {
		t.Error("the log is not empty")
	}
}
