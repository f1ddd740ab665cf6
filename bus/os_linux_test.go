package bus_test

const longPathsWork = true
