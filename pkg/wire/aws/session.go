package aws

import (
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Tries of one call to a service, which together leave a request time to answer.
const (
	serviceTries = 4
	serviceMost  = 2 * time.Second
)

// dial returns what a client of a service is made from. A function's credentials
// are in its environment and last as long as the function does, so nothing of the
// SDK's search for others is needed, nor its weight and time.
func dial(region string, getenv func(string) string) func(service string) aws.Config {
	creds := credentials.NewStaticCredentialsProvider(
		getenv("AWS_ACCESS_KEY_ID"), getenv("AWS_SECRET_ACCESS_KEY"), getenv("AWS_SESSION_TOKEN"))
	client := &http.Client{Transport: whole{http.DefaultTransport}}
	return func(service string) aws.Config {
		c := aws.Config{
			Region: region, Credentials: creds, HTTPClient: client,
			Retryer: func() aws.Retryer {
				return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = serviceTries, serviceMost })
			},
		}
		for _, name := range []string{"AWS_ENDPOINT_URL_" + service, "AWS_ENDPOINT_URL"} {
			if url := getenv(name); url != "" {
				c.BaseEndpoint = aws.String(url)
				break
			}
		}
		return c
	}
}

// pathStyle names buckets in the path where the address is an emulator's own.
func pathStyle(o *s3.Options) { o.UsePathStyle = o.BaseEndpoint != nil }
