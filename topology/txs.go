package topology

// TopicTxs carries decisions keyed by the transaction that they are about, so that the closure table, whose rows are
// transactions, sees those of one transaction in order. Values are written by EncodeOutcome, without shard contents.
const TopicTxs = "hence.txs" // key: workspace|tx
