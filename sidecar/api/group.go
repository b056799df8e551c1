package api

// BeginGroup is the body of POST /v1/workspaces/{workspace}/groups: branches of which one will be chosen.
type BeginGroup struct {
	Begin
	Branches int `json:"branches"`
}

// Select is the body of POST /v1/workspaces/{workspace}/groups/{group}/select.
type Select struct {
	Tx string `json:"tx"` // the branch that wins
}

// Group is a branch group and how its branches stand.
type Group struct {
	Group    string     `json:"group"`
	Tx       []string   `json:"tx"` // by begin
	Winner   string     `json:"winner,omitempty"`
	Branches []Decision `json:"branches"`
}
