package lb

// Words are what a dialect adds to sentences about its pools. In each of them
// {namespace} stands for the namespace of the Service.
type Words struct {
	// AddPool is what to create if there is no pool: "a Pool".
	AddPool string
	// AddAddress is what to do if the pools have no free address: "add addresses".
	// Empty is that.
	AddAddress string
	// AdmitService is what to do if no pool is for the Service: "change the rules
	// of a pool".
	AdmitService string
	// RequestPool is that with which a Service requests a pool: "annotation x".
	// It is empty if it cannot.
	RequestPool string
	// Share is that with which Services share an address: "annotation x".
	Share string
}
