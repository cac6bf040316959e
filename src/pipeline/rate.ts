/** The key of the shared rate limit: all agents of the platform share one rate limit. */
export const rateName = "platform";
