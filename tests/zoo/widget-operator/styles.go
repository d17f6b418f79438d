package main

import (
	"strconv"
	"strings"
)

// status is the status of an object as JSON. The forms that this operator writes differ too much for one Go type.
type status = map[string]any

// style turns a verdict into a status. It keeps unchanged parts, in particular transition times, so that an unchanged
// verdict gives an unchanged status and no write.
type style func(was status, v verdict, now string) status

// widgetStyle follows the conventions: observedGeneration, phase, and conditions that carry observedGeneration too.
func widgetStyle(was status, v verdict, now string) status {
	w := conditionWriter{was: was, now: now, generation: v.generation}
	conditions := []any{
		w.listed("Ready", v.ready, v.reason, v.message),
		w.listed("Progressing", truth(v.progressing), v.reason, v.message),
	}
	if v.stalled {
		conditions = append(conditions, w.listed("Stalled", "True", v.reason, v.message))
	}
	return status{
		"observedGeneration": v.generation,
		"phase":              v.phase,
		"conditions":         conditions,
		"replicas":           v.replicas,
		"readyReplicas":      v.readyReplicas,
	}
}

// phaseOnlyStyle has a phase and nothing else.
func phaseOnlyStyle(_ status, v verdict, _ string) status {
	return status{"phase": v.phase}
}

// noObservedStyle never reports an observed generation.
func noObservedStyle(was status, v verdict, now string) status {
	w := conditionWriter{was: was, now: now}
	return status{"conditions": []any{w.listed("Ready", v.ready, v.reason, v.message)}}
}

// foreverProgressingStyle reports as a Deployment does: Progressing stays True after the work is done.
func foreverProgressingStyle(was status, v verdict, now string) status {
	w := conditionWriter{was: was, now: now}
	progressing, reason := "True", "NewReplicaSetAvailable"
	switch {
	case v.stalled:
		progressing, reason = "False", v.reason
	case v.progressing:
		reason = "ReplicaSetUpdated"
	}
	return status{
		"observedGeneration": v.generation,
		"conditions": []any{
			w.listed("Available", v.ready, v.reason, v.message),
			w.listed("Progressing", progressing, reason, v.message),
		},
		"replicas":      v.replicas,
		"readyReplicas": v.readyReplicas,
	}
}

// numericStringStyle writes numbers as strings, and the status of conditions as booleans.
func numericStringStyle(was status, v verdict, now string) status {
	w := conditionWriter{was: was, now: now}
	isReady := v.ready == "True"
	ready := w.listed("Ready", truth(isReady), v.reason, v.message)
	ready["status"] = isReady
	return status{
		"observedGeneration": strconv.FormatInt(v.generation, 10),
		"conditions":         []any{ready},
	}
}

// mapConditionsStyle keys conditions by their type.
func mapConditionsStyle(was status, v verdict, now string) status {
	w := conditionWriter{was: was, now: now}
	return status{
		"observedGeneration": v.generation,
		"conditions": map[string]any{
			"Ready":       w.unnamed("Ready", v.ready, v.reason, v.message),
			"Reconciling": w.unnamed("Reconciling", truth(v.progressing), v.reason, v.message),
		},
	}
}

// noSubresourceStyle cannot report an observed generation: without a status subresource, each write of the status
// increments the generation.
func noSubresourceStyle(was status, v verdict, now string) status {
	w := conditionWriter{was: was, now: now}
	return status{"phase": v.phase, "conditions": []any{w.listed("Ready", v.ready, v.reason, v.message)}}
}

// jobLikeStyle has a phase that reaches an end, and the times of start and completion.
func jobLikeStyle(was status, v verdict, now string) status {
	s := status{"phase": v.phase}
	keep := func(field string, due bool) {
		if at, found := was[field]; found {
			s[field] = at
		} else if due {
			s[field] = now
		}
	}
	keep("startTime", v.phase != phasePending)
	keep("completionTime", v.phase == phaseSucceeded || v.phase == phaseFailed)
	if v.phase == phaseFailed {
		s["message"] = v.message
	}
	return s
}

// autoscaledStyle has the fields that the scale subresource reads, and one condition.
func autoscaledStyle(was status, v verdict, now string) status {
	w := conditionWriter{was: was, now: now, generation: v.generation}
	return status{
		"observedGeneration": v.generation,
		"replicas":           v.replicas,
		"selector":           v.selector,
		"conditions":         []any{w.listed("Ready", v.ready, v.reason, v.message)},
	}
}

// conditionWriter builds conditions whose transition time changes only when their status does.
type conditionWriter struct {
	was status
	now string

	// generation is the observedGeneration of each condition; 0 omits it.
	generation int64
}

func (w conditionWriter) unnamed(name, value, reason, message string) map[string]any {
	since := w.now
	if old, at := conditionOf(w.was, name); old == value && at != "" {
		since = at
	}
	c := map[string]any{"status": value, "reason": reason, "message": message, "lastTransitionTime": since}
	if w.generation != 0 {
		c["observedGeneration"] = w.generation
	}
	return c
}

func (w conditionWriter) listed(name, value, reason, message string) map[string]any {
	c := w.unnamed(name, value, reason, message)
	c["type"] = name
	return c
}

// conditionOf reads back one condition in any of the forms that styles write. Unreadable values are "".
func conditionOf(s status, name string) (value, since string) {
	switch conditions := s["conditions"].(type) {
	case []any:
		for _, item := range conditions {
			if c, ok := item.(map[string]any); ok && c["type"] == name {
				return readCondition(c)
			}
		}
	case map[string]any:
		if c, ok := conditions[name].(map[string]any); ok {
			return readCondition(c)
		}
	}
	return "", ""
}

func readCondition(c map[string]any) (value, since string) {
	switch v := c["status"].(type) {
	case string:
		value = v
	case bool:
		value = truth(v)
	}
	since, _ = c["lastTransitionTime"].(string)
	return value, since
}

// saysReady reports whether the status says ready, and for the given generation if the style reports generations.
func saysReady(s status, generation int64) bool {
	switch observed := s["observedGeneration"].(type) {
	case int64:
		return observed == generation && looksReady(s)
	case string:
		return observed == strconv.FormatInt(generation, 10) && looksReady(s)
	}
	return looksReady(s)
}

// looksReady reports whether the status says ready, for any generation.
func looksReady(s status) bool {
	if s["phase"] == phaseReady || s["phase"] == phaseSucceeded {
		return true
	}
	for _, name := range []string{"Ready", "Available"} {
		if value, _ := conditionOf(s, name); value == "True" {
			return true
		}
	}
	return false
}

// saysRejected reports whether the status says that the spec is invalid.
func saysRejected(s status) bool {
	if s["phase"] == phaseFailed {
		return true
	}
	conditions, _ := s["conditions"].([]any)
	for _, item := range conditions {
		if c, ok := item.(map[string]any); ok && c["reason"] == reasonInvalid {
			return true
		}
	}
	return false
}

func truth(b bool) string {
	s := strconv.FormatBool(b)
	return strings.ToUpper(s[:1]) + s[1:]
}
