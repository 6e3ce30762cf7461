package fargate

import "github.com/aws/aws-sdk-go-v2/service/ecs/types"

// Containers are what a run in an image consists of, as its task definition says.
func (d Definition) Containers(image string) []types.ContainerDefinition {
	return d.input(image).ContainerDefinitions
}
