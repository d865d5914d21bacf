package pictures

// moves draws the two paths after a planned move: of new connections, and of established ones.
func moves() *picture {
	p := &picture{name: "moved-connections", width: 860, height: 452, title: "After a planned move, new connections go to the new node; packets of established connections arrive there, too, and are sent to the former node, which answers the client directly"}
	p.text(24, 34, "head", "After 192.0.2.7 has moved from node1 to node2")
	client := area{24, 62, 150, 56}
	lan := area{24, 158, 812, 34}
	p.box(client, "box", "Client or router", "on the LAN")
	p.box(lan, "lane", "LAN")
	former, owner := area{24, 226, 380, 140}, area{456, 226, 380, 140}
	p.rect(former, "box")
	p.rect(owner, "good")
	p.text(former.x+14, former.y+24, "strong", "node1: had the address")
	p.lines(former.x+14, former.y+48, "soft", "Its kernel knows the established connections.", "It goes on translating, without announcing.", "The agent lists them to node2.")
	p.text(owner.x+14, owner.y+24, "strong", "node2: announces the address")
	p.lines(owner.x+14, owner.y+48, "soft", "New connections are its own.", "Packets of listed connections are sent on", "by one nftables rule at the interface.")
	// 1: all packets
	p.activeArrow(620, lan.bottom(), 620, owner.y-2)
	p.number(620, 209, 1)
	p.text(220, 82, "", "All packets to 192.0.2.7 arrive at node2.")
	p.number(203, 77, 1)
	// 2: to the former node
	p.activeArrow(owner.x, 330, former.right()+2, 330)
	p.number(430, 330, 2)
	p.text(220, 106, "", "Packets of established connections go on to node1: one hop, never more.")
	p.number(203, 101, 2)
	// 3: the answers
	p.activeArrow(120, former.y, 120, lan.bottom()+2)
	p.number(120, 209, 3)
	p.text(220, 130, "", "Replies leave node1 directly, from 192.0.2.7.")
	p.number(203, 125, 3)
	p.arrow(70, lan.y, 70, client.bottom()+2)
	p.text(24, 396, "", "It ends when the connections have ended, when node1 does not answer on the LAN any more, or after 15 minutes.")
	p.text(24, 420, "soft", "A packet that comes from a node is never sent on: packets cannot go back and forth.")
	return p
}
