package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// parsers returns how values of each type are read. The library's own parsers
// print Go's words ("strconv.ParseInt: ..."); these say what to write instead.
func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[int]():           parseInt,
		reflect.TypeFor[bool]():          parseBool,
		reflect.TypeFor[time.Duration](): parseDuration,
		reflect.TypeFor[[]int64]():       parseUsers,
		reflect.TypeFor[[]string]():      parseKinds,
	}
}

func parseInt(value string) (any, error) {
	n, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("%s is not a whole number", quote(value))
	}
	return n, nil
}

func parseBool(value string) (any, error) {
	b, err := strconv.ParseBool(value)
	if err != nil {
		return nil, fmt.Errorf("%s is neither true nor false", quote(value))
	}
	return b, nil
}

func parseDuration(value string) (any, error) {
	d, err := time.ParseDuration(value)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil {
		return nil, fmt.Errorf("%s has no unit; write %ss for seconds", quote(value), value)
	}
	return nil, fmt.Errorf("%s is not a duration", quote(value))
}

// parseUsers reads "1, 2" as the sorted numbers, without doubles.
func parseUsers(value string) (any, error) {
	var users []int64
	var faults []error
	for _, item := range items(value) {
		id, err := strconv.ParseInt(item, 10, 64)
		switch {
		case strings.HasPrefix(item, "@"):
			faults = append(faults, fmt.Errorf("%s is a user name, which can pass to somebody else: give the numeric id (status shows the ids of denied senders)", quote(item)))
		case err != nil:
			faults = append(faults, fmt.Errorf("%s is not a numeric user id", quote(item)))
		case id <= 0:
			faults = append(faults, fmt.Errorf("%s is not a user id: these are above 0, groups and channels are below", quote(item)))
		default:
			users = append(users, id)
		}
	}
	if len(faults) > 0 {
		return nil, joinFaults(faults)
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// parseKinds reads "message, poll" as the kinds, without doubles.
func parseKinds(value string) (any, error) {
	var kinds []string
	for _, item := range items(value) {
		if strings.Trim(item, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return nil, fmt.Errorf("%s is not a kind of update", quote(item))
		}
		if !slices.Contains(kinds, item) {
			kinds = append(kinds, item)
		}
	}
	return kinds, nil
}

// items splits a list at commas; blanks around items and empty items go.
func items(value string) []string {
	var list []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// joinFaults puts the faults of one value on one line.
func joinFaults(faults []error) error {
	texts := make([]string, len(faults))
	for i, fault := range faults {
		texts[i] = fault.Error()
	}
	return errors.New(strings.Join(texts, ", "))
}
