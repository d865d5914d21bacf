package stories

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/kubeapi"
)

func (s *story) unannounced(args []string) error {
	re, err := regexp.Compile(strings.Join(args[2:], " "))
	if err != nil {
		return err
	}
	svc, _, err := s.get(args[0])
	if err != nil {
		return err
	}
	c := meta.FindStatusCondition(svc.Status.Conditions, kubeapi.ConditionAnnounced)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != args[1] || !re.MatchString(c.Message) {
		return fmt.Errorf("condition is %v", c)
	}
	return nil
}

func (s *story) announced(args []string) error {
	svc, _, err := s.get(args[0])
	if err != nil {
		return err
	}
	if c := meta.FindStatusCondition(svc.Status.Conditions, kubeapi.ConditionAnnounced); c != nil {
		return fmt.Errorf("condition is %v", c)
	}
	return nil
}

func (s *story) agent(args []string) error {
	var a v1alpha1.Agent
	err := s.rig.Client.Get(context.Background(), types.NamespacedName{Name: args[0]}, &a)
	switch {
	case len(args) == 1 && apierrors.IsNotFound(err):
		return nil
	case len(args) == 1 && err == nil:
		return errors.New("it is there")
	case err != nil:
		return err
	}
	c := meta.FindStatusCondition(a.Status.Conditions, "Ready")
	if c == nil {
		return errors.New("no condition")
	}
	got := []string{string(c.Status), c.Reason, fmt.Sprint(a.Status.Announced), fmt.Sprint(len(a.Status.Addresses))}
	if !slices.Equal(got, args[1:]) {
		return fmt.Errorf("it is %q, with conditions %v", got, a.Status.Conditions)
	}
	return nil
}
