package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfront"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudfrontorigins"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53targets"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// cdn gives the API the root of a host, which discovery needs: the stage is the
// origin's path.
type cdn struct {
	Distribution awscloudfront.Distribution
	URL          string
}

// edge is what the distribution proves itself with to the functions: the part of
// the stack's id that nobody outside the account can know. It opens nothing; it
// says that the host a request names is the one that was asked for.
func (p *parts) edge() string {
	return *awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), p.stack.StackId(), nil))
}

// newCDN caches nothing and passes everything but the host, which the origin
// needs to be its own; the one asked for travels in a header that a function
// here overwrites.
func newCDN(p *parts) cdn {
	host := awscloudfront.NewFunction(p.stack, jsii.String("HostHeader"), &awscloudfront.FunctionProps{
		Runtime: awscloudfront.FunctionRuntime_JS_2_0(),
		Comment: jsii.String("Tells the origin which host was asked for"),
		Code: awscloudfront.FunctionCode_FromInline(jsii.String(`function handler(event) {
  var request = event.request;
  request.headers['` + strings.ToLower(names.HeaderHost) + `'] = { value: request.headers.host.value };
  return request;
}`)),
	})
	props := &awscloudfront.DistributionProps{
		Comment:   jsii.String(p.set.prefix()),
		LogBucket: p.AccessLogs, LogFilePrefix: jsii.String("cdn/"),
		PriceClass:  awscloudfront.PriceClass_PRICE_CLASS_100,
		HttpVersion: awscloudfront.HttpVersion_HTTP2_AND_3,
		DefaultBehavior: &awscloudfront.BehaviorOptions{
			Origin: awscloudfrontorigins.NewRestApiOrigin(p.API, &awscloudfrontorigins.RestApiOriginProps{
				OriginPath: jsii.String("/" + p.set.Stage),
				// In place of whatever a viewer sends under this name.
				CustomHeaders: &map[string]*string{names.HeaderEdge: jsii.String(p.edge())},
				// The longest that may pass between two packets of an answer; held
				// answers beat every few seconds.
				ReadTimeout: awscdk.Duration_Seconds(jsii.Number(60)),
			}),
			AllowedMethods:       awscloudfront.AllowedMethods_ALLOW_ALL(),
			ViewerProtocolPolicy: awscloudfront.ViewerProtocolPolicy_HTTPS_ONLY,
			CachePolicy:          awscloudfront.CachePolicy_CACHING_DISABLED(),
			OriginRequestPolicy:  awscloudfront.OriginRequestPolicy_ALL_VIEWER_EXCEPT_HOST_HEADER(),
			Compress:             jsii.Bool(false), // compression would hold streamed lines back
			FunctionAssociations: &[]*awscloudfront.FunctionAssociation{{
				EventType: awscloudfront.FunctionEventType_VIEWER_REQUEST, Function: host,
			}},
		},
	}
	if p.set.Domain != "" {
		props.MinimumProtocolVersion = awscloudfront.SecurityPolicyProtocol_TLS_V1_2_2021
		props.DomainNames = jsii.Strings(p.set.Domain)
		props.Certificate = awscertificatemanager.Certificate_FromCertificateArn(p.stack, jsii.String("Certificate"), jsii.String(p.set.Certificate))
	}
	d := awscloudfront.NewDistribution(p.stack, jsii.String("Distribution"), props)
	c := cdn{Distribution: d, URL: "https://" + *d.DistributionDomainName()}
	if p.set.Domain != "" {
		c.URL = "https://" + p.set.Domain
	}
	if p.set.ZoneID != "" {
		zone := awsroute53.HostedZone_FromHostedZoneAttributes(p.stack, jsii.String("Zone"), &awsroute53.HostedZoneAttributes{
			HostedZoneId: jsii.String(p.set.ZoneID), ZoneName: jsii.String(p.set.ZoneName),
		})
		awsroute53.NewARecord(p.stack, jsii.String("Record"), &awsroute53.ARecordProps{
			Zone: zone, RecordName: jsii.String(p.set.Domain + "."),
			Target: awsroute53.RecordTarget_FromAlias(awsroute53targets.NewCloudFrontTarget(d)),
		})
	}
	return c
}
