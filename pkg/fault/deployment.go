package fault

import "errors"

// coded is an error of a cloud service, which says its own name.
type coded interface {
	error
	ErrorCode() string
}

// How a deployment can stand so that a service refuses whatever is asked.
const (
	absent   = "%s is not there: the deployment is not whole, or was taken apart"
	denied   = "the control plane may not use %s"
	expired  = "the control plane's credentials for %s are not accepted any more"
	disabled = "%s is disabled"
)

var standings = map[string]string{
	"ResourceNotFoundException":               absent, // of a table
	"QueueDoesNotExist":                       absent,
	"AWS.SimpleQueueService.NonExistentQueue": absent,
	"NoSuchBucket":                            absent,
	"StateMachineDoesNotExist":                absent,
	"StateMachineDeleting":                    absent,
	"ClusterNotFoundException":                absent,
	"NotFoundException":                       absent, // of a key
	"AccessDeniedException":                   denied,
	"AccessDenied":                            denied,
	"KmsAccessDenied":                         denied, // of a queue's key
	"KMS.AccessDeniedException":               denied,
	"AllAccessDisabled":                       denied,
	"ExpiredTokenException":                   expired,
	"ExpiredToken":                            expired,
	"RequestExpired":                          expired,
	"UnrecognizedClientException":             expired,
	"InvalidClientTokenId":                    expired,
	"InvalidAccessKeyId":                      expired,
	"InvalidSignatureException":               expired,
	"SignatureDoesNotMatch":                   expired,
	"DisabledException":                       disabled,
	"KMSInvalidStateException":                disabled,
	"KmsDisabled":                             disabled,
	"KmsInvalidState":                         disabled,
	"KMS.DisabledException":                   disabled,
	"KMS.KMSInvalidStateException":            disabled,
}

// Deployment returns the fault of a service that refuses because of how the
// control plane is deployed and not of what was asked: half of a new version is
// there, a right or a table is missing, a key is disabled. It is nil for every
// other error. The caller has done nothing wrong and the same request succeeds once
// the deployment is mended, so it is Unavailable, never a 4xx; what is named, for
// whoever mends it.
func Deployment(err error, what string) *Error {
	e, ok := errors.AsType[coded](err)
	if !ok {
		return nil
	}
	words, ok := standings[e.ErrorCode()]
	if !ok {
		return nil
	}
	return Wrap(Unavailable, err, words, what).
		WithNext("Whoever runs this control plane finds what is missing with `lazy doctor --aws`; then send it again.")
}
