package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"github.com/lazyplane/lazyplane/pkg/names"
)

// Requests a second and at once, over all surfaces and everybody. They bound what
// a leaked credential or a loop can cost; limits of one tenant are the product's
// own.
const (
	throttleRate  = 200
	throttleBurst = 400
)

// apiMargin is how much longer than its function the API waits, so that a
// function that runs out of time is what ends a request.
const apiMargin = time.Second

// route is a path of the API and the surface behind it.
type route struct {
	path    []string
	methods []string
	surface string
}

func routes() []route {
	return []route{
		{[]string{"rpc", "{command}"}, []string{"POST"}, names.SurfaceRPC},
		{[]string{"daemon", "status"}, []string{"GET"}, names.SurfaceRPC},
		{[]string{"mcp", "{segment}"}, []string{"GET", "POST", "DELETE"}, names.SurfaceMCP},
		{[]string{"mcp", "{segment}", "{tool}"}, []string{"POST"}, names.SurfaceMCP},
		{[]string{"builder", "storage"}, []string{"POST"}, names.SurfaceMCP},
		{[]string{"runner", "{op}"}, []string{"POST"}, names.SurfaceRunner},
		// The address itself, which is all that a client of the protocol is told.
		{nil, []string{"GET", "POST", "DELETE"}, names.SurfaceMCP},
		{[]string{".well-known", "oauth-authorization-server"}, []string{"GET"}, names.SurfaceAuth},
		{[]string{".well-known", "oauth-protected-resource"}, []string{"GET"}, names.SurfaceAuth},
		{[]string{".well-known", "oauth-protected-resource", "mcp", "_"}, []string{"GET"}, names.SurfaceAuth},
		{[]string{".well-known", "oauth-protected-resource", "rpc"}, []string{"GET"}, names.SurfaceAuth},
		{[]string{"auth", "{action}"}, []string{"GET", "POST"}, names.SurfaceAuth},
		{[]string{"activate"}, []string{"GET", "POST"}, names.SurfaceAuth},
	}
}

// newAPI makes a Regional REST API whose answers are streamed. Credentials are
// checked by the surfaces, which alone can: they are opaque and hashed at rest.
func newAPI(p *parts) awsapigateway.RestApi {
	logs := awslogs.NewLogGroup(p.stack, jsii.String("ApiLogs"), &awslogs.LogGroupProps{
		Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: p.set.removal(),
	})
	api := awsapigateway.NewRestApi(p.stack, jsii.String("Api"), &awsapigateway.RestApiProps{
		RestApiName:           jsii.String(p.set.prefix()),
		Description:           jsii.String("lazyplane"),
		EndpointConfiguration: &awsapigateway.EndpointConfiguration{Types: &[]awsapigateway.EndpointType{awsapigateway.EndpointType_REGIONAL}},
		CloudWatchRole:        jsii.Bool(false),
		DeployOptions: &awsapigateway.StageOptions{
			StageName:            jsii.String(p.set.Stage),
			ThrottlingRateLimit:  jsii.Number(throttleRate),
			ThrottlingBurstLimit: jsii.Number(throttleBurst),
			MetricsEnabled:       jsii.Bool(false), // by method; those of the stage cost nothing
			DataTraceEnabled:     jsii.Bool(false),
			AccessLogDestination: awsapigateway.NewLogGroupLogDestination(logs),
			AccessLogFormat:      awsapigateway.AccessLogFormat_Custom(jsii.String(accessLog)),
		},
		// Without one, a path with no method of its own would answer by a mock.
		DefaultIntegration: streamed(p, names.SurfaceRPC),
	})
	checked := api.AddRequestValidator(jsii.String("Checked"), &awsapigateway.RequestValidatorOptions{
		ValidateRequestBody: jsii.Bool(true), ValidateRequestParameters: jsii.Bool(true),
	})
	for _, r := range routes() {
		at := api.Root()
		for _, part := range r.path {
			if next := at.GetResource(jsii.String(part)); next != nil {
				at = next.(awsapigateway.Resource)
			} else {
				at = at.AddResource(jsii.String(part), nil)
			}
		}
		for _, m := range r.methods {
			at.AddMethod(jsii.String(m), streamed(p, r.surface), &awsapigateway.MethodOptions{
				AuthorizationType: awsapigateway.AuthorizationType_NONE, RequestValidator: checked,
			})
		}
	}
	answer(p, api, "NoRoute", awsapigateway.ResponseType_MISSING_AUTHENTICATION_TOKEN(), "404", "not_found", "There is nothing at this address.")
	answer(p, api, "Throttled", awsapigateway.ResponseType_THROTTLED(), "429", "limited", "Too many requests at once; nothing was done. Try again in a moment.")
	answer(p, api, "TooLarge", awsapigateway.ResponseType_REQUEST_TOO_LARGE(), "413", "invalid", "The request is too large; nothing was done.")
	answer(p, api, "Broken", awsapigateway.ResponseType_DEFAULT_5XX(), "503", "unavailable", "The control plane did not answer. Ask for the operation by its id before trying again.")
	return api
}

// accessLog names who asked for what and how it ended. It has no header, query
// string or body, and the path of a route rather than of the request, for a
// request's path may hold a name.
const accessLog = `{"time":"$context.requestTime","request":"$context.requestId","method":"$context.httpMethod",` +
	`"route":"$context.resourcePath","status":"$context.status","bytes":"$context.responseLength",` +
	`"ms":"$context.responseLatency","integration_ms":"$context.integrationLatency","error":"$context.error.responseType"}`

func streamed(p *parts, surface string) awsapigateway.Integration {
	return awsapigateway.NewLambdaIntegration(p.Functions[surface].Live, &awsapigateway.LambdaIntegrationOptions{
		Proxy:                jsii.Bool(true),
		AllowTestInvoke:      jsii.Bool(false),
		ResponseTransferMode: awsapigateway.ResponseTransferMode_STREAM,
		Timeout:              awscdk.Duration_Seconds(jsii.Number((shapes()[surface].Timeout + apiMargin).Seconds())),
	})
}

// answer words what the API says by itself the way the product words errors.
func answer(p *parts, api awsapigateway.RestApi, id string, kind awsapigateway.ResponseType, status, code, message string) {
	awsapigateway.NewGatewayResponse(p.stack, jsii.String("Api"+id), &awsapigateway.GatewayResponseProps{
		RestApi: api, Type: kind, StatusCode: jsii.String(status),
		Templates: &map[string]*string{"application/json": jsii.String(`{"error":{"code":"` + code + `","message":"` + message + `"}}`)},
	})
}
