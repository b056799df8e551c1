package api

// Word is the body of POST /v1/effects/{tx}/{index}/approve and deny; it may be left out.
type Word struct {
	// ArgsSHA256 is the hash of the arguments that the approver has seen, hexadecimal; absent: those that were sealed.
	ArgsSHA256 string `json:"args_sha256,omitempty"`

	Yes bool   `json:"-"` // the route says it
	By  string `json:"-"` // and the token
}
