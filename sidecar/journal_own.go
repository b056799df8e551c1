package sidecar

// inlineArgs bounds the arguments and answers that are kept where they stand, in bytes; larger ones travel by reference.
const inlineArgs = 4 << 10
