package op

import "slices"

// Default is the catalogue of the product.
func Default() *Catalogue {
	return New(slices.Concat(
		taskOps(), turnOps(), acceptOps(), noteOps(), raisedOps(), ownOps(), readOps(), credentialOps(), builderOps(), usageOps(), gateOps(), repositoryOps(), protectionOps(),
	)...)
}
