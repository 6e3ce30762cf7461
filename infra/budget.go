package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbudgets"
	"github.com/aws/jsii-runtime-go"
)

// newBudget has the topic told when the month is forecast to cost more than was
// said, and when it has. It sees what carries the stage's tag, once that tag is
// activated for cost allocation.
func newBudget(p *parts) {
	note := func(kind string, percent float64) *awsbudgets.CfnBudget_NotificationWithSubscribersProperty {
		return &awsbudgets.CfnBudget_NotificationWithSubscribersProperty{
			Notification: &awsbudgets.CfnBudget_NotificationProperty{
				NotificationType: jsii.String(kind), ComparisonOperator: jsii.String("GREATER_THAN"),
				Threshold: jsii.Number(percent), ThresholdType: jsii.String("PERCENTAGE"),
			},
			Subscribers: []any{&awsbudgets.CfnBudget_SubscriberProperty{SubscriptionType: jsii.String("SNS"), Address: p.Topic.TopicArn()}},
		}
	}
	awsbudgets.NewCfnBudget(p.stack, jsii.String("Budget"), &awsbudgets.CfnBudgetProps{
		Budget: &awsbudgets.CfnBudget_BudgetDataProperty{
			BudgetName: jsii.String(p.set.prefix()), BudgetType: jsii.String("COST"), TimeUnit: jsii.String("MONTHLY"),
			BudgetLimit: &awsbudgets.CfnBudget_SpendProperty{Amount: jsii.Number(p.set.Budget), Unit: jsii.String("USD")},
			CostFilters: map[string]any{"TagKeyValue": []string{"user:lazyplane:stage$" + p.set.Stage}},
		},
		NotificationsWithSubscribers: []any{note("FORECASTED", 100), note("ACTUAL", 100)},
	})
}
