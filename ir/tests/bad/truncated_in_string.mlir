module @m attributes {a = "never ends
